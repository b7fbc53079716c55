package lock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicehq/sluice/lock"
	"github.com/sluicehq/sluice/lock/storelock"
	_ "github.com/sluicehq/sluice/store/sqlitestore"
)

// A store of Sluice keeps locks as well. The second owner waits for the first, and has a
// higher fencing number.
func Example() {
	dir, err := os.MkdirTemp("", "lock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	backend, err := storelock.Open(ctx, "sqlite:"+filepath.Join(dir, "store.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()

	locker := lock.Locker{Backend: backend, TTL: 10 * time.Second}
	last := int64(0)
	for range 2 {
		err := locker.Do(ctx, "close-the-books", func(_ context.Context, fence int64) error {
			fmt.Println("closing the books, with a higher number:", fence > last)
			last = fence
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// closing the books, with a higher number: true
	// closing the books, with a higher number: true
}
