"""A person looks at the verdicts, decides, and gets a corrected data set."""
