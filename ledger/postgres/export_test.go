package postgres

// What the tests in postgres_test need to know.
var (
	Migrations = migrations
	Migrate    = migrate
)
