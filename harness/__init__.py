"""The ground that the other three folders stand on: rooms in the order of a run; none imports one below it."""
