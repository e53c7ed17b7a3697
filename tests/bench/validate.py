#!/usr/bin/python3
"""validate.py SCHEMA FILE - every result in FILE (an array, or one object per line) against a JSON schema; exit 1 and a line when one is not valid."""
import json
import sys

import jsonschema

with open(sys.argv[1]) as f:
    schema = json.load(f)
jsonschema.Draft7Validator.check_schema(schema)
with open(sys.argv[2]) as f:
    text = f.read()
try:
    whole = json.loads(text)
    results = whole if isinstance(whole, list) else [whole]
except json.JSONDecodeError:
    results = [json.loads(line) for line in text.splitlines()]
if not results:
    sys.exit(f'{sys.argv[2]}: no results')
for i, result in enumerate(results):
    for error in jsonschema.Draft7Validator(schema).iter_errors(result):
        sys.exit(f'{sys.argv[2]}: result {i}: {"/".join(map(str, error.absolute_path))}: {error.message[:200]}')
