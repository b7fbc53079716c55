package sqliteledger

// OpenReadOnly opens as the driver does.
var OpenReadOnly = openReadOnly
