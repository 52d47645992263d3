"""The files of a run: recorder, reader, columns, folder, schedule, voters' logs. Knows neither Spark nor checkers."""
