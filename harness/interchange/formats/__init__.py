"""Histories in the forms of other tools, read and written: EDN as Jepsen has it, JSON as Porcupine's users have it.

`recognise.py` tells which form a file has and opens it; `edn.py` and `porcupine.py` know one form each; `jepsen.py`
knows what the operations of a history in EDN mean; `family.py` tells from the operations which model can judge them.
"""
