"""Readers and writers for the history formats of other tools: EDN as in Jepsen, JSON as used with Porcupine.

`recognise.py` recognises the format of a file and opens it; `edn.py`, `porcupine.py` and `tables.py` know one each;
`jepsen.py` maps the operations of an EDN history onto events; `family.py` chooses the model that can judge them.
"""
