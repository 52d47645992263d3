"""A consistency test harness for the systems that keep other systems' metadata.

The four folders of the product stand at the top of the tree. The links beside this file give them one import name, so
that an installed fencepost claims no common name (`harness`, `checkers`) in somebody's environment: its wheel holds the
folders themselves under `fencepost`.
"""
