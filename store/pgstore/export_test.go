package pgstore

// MigrationLock is the advisory lock of migrations.
const MigrationLock = migrationLock
