package sqlite

// What the tests in sqlite_test need to know.
var TheSchema = schema

const MaxWaiting = maxWaiting
