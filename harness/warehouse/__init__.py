"""Many runs through Spark: facts and verdicts derived again, and what only many runs together can say."""
