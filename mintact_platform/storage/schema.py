"""The tables of run.db."""

from __future__ import annotations

VERSION = 1
"""`PRAGMA user_version`; raised with every change of the tables."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE tasks (id TEXT PRIMARY KEY, domain TEXT NOT NULL, json TEXT NOT NULL);
CREATE TABLE groups (
    id TEXT PRIMARY KEY, task TEXT NOT NULL, domain TEXT NOT NULL,
    fate TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
    opened_at REAL NOT NULL, closed_at REAL, oldest_version INTEGER
);
CREATE INDEX groups_by_fate ON groups (fate, domain);
CREATE TABLE trajectories (
    id TEXT PRIMARY KEY, group_id TEXT NOT NULL REFERENCES groups (id),
    member INTEGER NOT NULL, attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL, phase TEXT, reward REAL, verdict_json TEXT,
    turns INTEGER NOT NULL, tokens INTEGER NOT NULL,
    first_version INTEGER NOT NULL, last_version INTEGER NOT NULL,
    path TEXT NOT NULL, failure_json TEXT
);
CREATE INDEX trajectories_by_group ON trajectories (group_id);
CREATE TABLE steps (
    step INTEGER PRIMARY KEY, groups_json TEXT NOT NULL, prox_version INTEGER NOT NULL,
    realised_json TEXT NOT NULL, metrics_json TEXT, seed INTEGER NOT NULL,
    config_hash TEXT NOT NULL, done_at REAL
);
CREATE TABLE pushes (
    version INTEGER NOT NULL, step INTEGER NOT NULL, seconds REAL NOT NULL, ok INTEGER NOT NULL
);
CREATE TABLE metrics (
    time REAL NOT NULL, name TEXT NOT NULL, domain TEXT NOT NULL, value REAL NOT NULL
);
CREATE INDEX metrics_by_name ON metrics (name, domain, time);
CREATE TABLE plugins (
    distribution TEXT NOT NULL, version TEXT NOT NULL, provides TEXT NOT NULL, error TEXT
);
CREATE TABLE evaluations (
    id TEXT PRIMARY KEY, step INTEGER NOT NULL, domain TEXT NOT NULL, task TEXT NOT NULL,
    outcome TEXT NOT NULL, reward REAL, turns INTEGER NOT NULL, tokens INTEGER NOT NULL,
    path TEXT NOT NULL, verdict_json TEXT, label TEXT NOT NULL
);
"""
