// What test/clients/drivers.test.ts asks of each driver, by pgx: a JSON line for each step.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func say(step string, value any) {
	line, _ := json.Marshal(map[string]any{"step": step, "value": value})
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// The SQLSTATE of an error; a connection that is found closed has none of its own.
func stateOf(err error) any {
	var answered *pgconn.PgError
	if err == nil {
		return nil
	}
	if errors.As(err, &answered) {
		return answered.Code
	}
	return "closed"
}

func number(connection *pgx.Conn, sql string, arguments ...any) (n int) {
	must(connection.QueryRow(context.Background(), sql, arguments...).Scan(&n))
	return n
}

func main() {
	ctx := context.Background()
	input := bufio.NewReader(os.Stdin)
	connection, err := pgx.Connect(ctx, os.Args[1])
	must(err)
	_, err = connection.Exec(ctx, "drop table if exists pgx_item; create table pgx_item (n int primary key, t text)")
	must(err)

	sum := 0
	for n := range 100 {
		sum += number(connection, "select $1::int", n)
	}
	say("prepared", sum)

	rows := pgx.CopyFromSlice(20_000, func(n int) ([]any, error) { return []any{n, strings.Repeat("x", 100)}, nil })
	_, err = connection.CopyFrom(ctx, pgx.Identifier{"pgx_item"}, []string{"n", "t"}, rows)
	must(err)
	var out bytes.Buffer
	_, err = connection.PgConn().CopyTo(ctx, &out, "copy pgx_item to stdout")
	must(err)
	say("copy", bytes.Count(out.Bytes(), []byte("\n")))

	batch := &pgx.Batch{}
	for n := range 200 {
		batch.Queue("select $1::int * 2", n)
	}
	answers := connection.SendBatch(ctx, batch)
	sum = 0
	for range 200 {
		var n int
		must(answers.QueryRow().Scan(&n))
		sum += n
	}
	must(answers.Close())
	say("pipeline", sum)

	batch = &pgx.Batch{}
	batch.Queue("insert into pgx_item values (-1, '')")
	batch.Queue("select 1 / $1::int", 0)
	batch.Queue("insert into pgx_item values (-2, '')")
	say("failed_pipeline", stateOf(connection.SendBatch(ctx, batch).Close()))

	err = pgx.BeginFunc(ctx, connection, func(transaction pgx.Tx) error {
		if _, err := transaction.Exec(ctx, "insert into pgx_item values (-3, '')"); err != nil {
			return err
		}
		_, err := transaction.Exec(ctx, "insert into pgx_item values (-3, '')")
		return err
	})
	say("transaction", stateOf(err))
	say("left", number(connection, "select count(*) from pgx_item where n < 0"))

	// The context of a query that ends closes the connection in pgx: a request to cancel is sent by hand.
	say("cancel_soon", nil)
	go func() {
		_, err := input.ReadString('\n')
		must(err)
		must(connection.PgConn().CancelRequest(ctx))
	}()
	_, err = connection.Exec(ctx, "select pg_sleep(60)")
	say("cancel", stateOf(err))
	say("after_cancel", number(connection, "select 1"))

	say("suspend_now", nil)
	_, err = input.ReadString('\n')
	must(err)
	_, err = connection.Exec(ctx, "select 1")
	say("after_suspend", stateOf(err))
	connection.Close(ctx)
	again, err := pgx.Connect(ctx, os.Args[1])
	must(err)
	say("again", number(again, "select count(*) from pgx_item where n >= 0"))
	must(again.Close(ctx))
}
