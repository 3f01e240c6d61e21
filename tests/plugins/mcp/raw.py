"""A server of the older protocol in plain Python, quick to start, that misbehaves on demand."""

import json
import os
import subprocess
import sys
import time

HOW = sys.argv[1]
TOOLS = ["echo", "terminate", "secret_key"]


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name):
    return {"name": name, "description": f"{name} it", "inputSchema": {"type": "object"}}


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def call(name, arguments):
    do = arguments.get("do", "echo")
    if do == "die":
        os._exit(7)
    if do == "hang":
        time.sleep(1000)
    if do == "breed":
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if do == "noise":
        sys.stdout.write('loading weights: 100%\n\n{"half": \n' + "\x00\xff\n")
    if do == "huge":
        return text("x" * arguments["size"])
    if do == "endless":
        while True:
            sys.stdout.write("x" * 65536)
    if do == "shapeless":
        return {"content": "not a list"}
    if do == "tools":
        TOOLS[:] = ["other"]
        send({"method": "notifications/tools/list_changed"})
    if do == "picture":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/webp"}]}
    return text(f"{name} {json.dumps(arguments)}")


def answer(message):
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "raw", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [*map(tool, TOOLS)]}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return None


def main():
    if HOW == "exits":
        sys.exit("no license")
    if HOW == "silent":
        time.sleep(1000)
    if HOW == "babbles":
        for _ in range(50):
            print("hello, I am a program")
        sys.exit(0)
    if HOW == "stays":
        # a child of its own that holds the pipes, and no ear for the end of its input
        subprocess.Popen(["sleep", "1000"])
    late = []
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message.get("params", {}).get("arguments", {}).get("do") == "late":
            # its answer comes with the next message, and so never in time
            late.append(message)
            continue
        while late:
            send({"id": late[0]["id"], "result": answer(late.pop(0))})
        found = answer(message)
        if found is None:
            error = {"code": -32601, "message": f"no method {message['method']}"}
            send({"id": message["id"], "error": error})
        else:
            send({"id": message["id"], "result": found})
    while HOW == "stays":
        time.sleep(1)


main()
