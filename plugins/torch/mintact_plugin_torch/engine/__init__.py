"""The embedded model server: SGLang's routes in front of transformers weights."""
