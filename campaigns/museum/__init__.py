"""The museum of published bugs, each beside a control; and the first release that has one, by bisection."""
