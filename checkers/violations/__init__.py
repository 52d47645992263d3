"""From what was found to a verdict: findings, the one ladder, and the words that all checkers say things in."""
