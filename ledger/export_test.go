package ledger

// What the tests in ledger_test need to know.
var Migrations = migrations

const MaxQueue = maxQueue
