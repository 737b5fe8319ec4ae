import { type Address, jdbcUrl, libpqUri } from './address.ts'
import { shell, type Snippet } from './snippet.ts'

/** Drivers of languages, each as a whole program. */
export const languages = (address: Address): readonly Snippet[] => [
  nodePg(address),
  postgresJs(address),
  serverless(address),
  python(address),
  go(address),
  java(address),
]

const nodePg = (address: Address): Snippet => ({
  id: 'node-pg',
  title: 'Node: pg',
  parts: [
    shell('npm install pg'),
    {
      where: 'neap.mjs',
      text: `import pg from 'pg'

const client = new pg.Client('${libpqUri(address)}')
await client.connect()
const { rows } = await client.query('select version()')
console.log(rows[0].version)
await client.end()`,
    },
    shell('node neap.mjs'),
  ],
})

const postgresJs = ({ uri, authority }: Address): Snippet => ({
  id: 'node-postgres',
  title: 'Node: postgres.js',
  parts: [
    shell('npm install postgres'),
    {
      where: 'neap.mjs',
      text: `${authority === undefined ? '' : `import { readFileSync } from 'node:fs'\n`}import postgres from 'postgres'

const sql = postgres('${uri}'${authority === undefined ? '' : `, {\n  ssl: { ca: readFileSync('${authority}') },\n}`})
const [row] = await sql\`select version()\`
console.log(row.version)
await sql.end()`,
    },
    shell('node neap.mjs'),
  ],
})

/** Over HTTP: the driver speaks TLS by the runtime, which always verifies. */
const serverless = ({ uri, authority }: Address): Snippet => ({
  id: 'serverless',
  title: 'Serverless driver (HTTP)',
  parts: [
    shell('npm install @neondatabase/serverless'),
    {
      where: 'neap.mjs',
      text: `import { neon, neonConfig } from '@neondatabase/serverless'

neonConfig.fetchEndpoint = (host, port) => \`https://\${host}:\${port}/sql\`
const sql = neon('${uri}')
const [row] = await sql\`select version()\`
console.log(row.version)`,
    },
    shell(authority === undefined ? 'node neap.mjs' : `NODE_EXTRA_CA_CERTS=${authority} node neap.mjs`),
  ],
})

const python = (address: Address): Snippet => ({
  id: 'python',
  title: 'Python: psycopg',
  parts: [
    shell('pip install "psycopg[binary]"'),
    {
      where: 'neap.py',
      text: `import psycopg

with psycopg.connect('${libpqUri(address)}') as connection:
    print(connection.execute("select version()").fetchone()[0])`,
    },
    shell('python neap.py'),
  ],
})

const go = (address: Address): Snippet => ({
  id: 'go',
  title: 'Go: pgx',
  parts: [
    shell('go mod init example && go get github.com/jackc/pgx/v5'),
    {
      where: 'main.go',
      text: `package main

import (
\t"context"
\t"fmt"

\t"github.com/jackc/pgx/v5"
)

func main() {
\tctx := context.Background()
\tconn, err := pgx.Connect(ctx, "${libpqUri(address)}")
\tif err != nil {
\t\tpanic(err)
\t}
\tdefer conn.Close(ctx)
\tvar version string
\tif err := conn.QueryRow(ctx, "select version()").Scan(&version); err != nil {
\t\tpanic(err)
\t}
\tfmt.Println(version)
}`,
    },
    shell('go run .'),
  ],
})

const java = (address: Address): Snippet => ({
  id: 'java',
  title: 'Java: JDBC',
  parts: [
    shell('mvn -q dependency:copy -Dartifact=org.postgresql:postgresql:42.7.8 -DoutputDirectory=.'),
    {
      where: 'Neap.java',
      text: `import java.sql.*;

class Neap {
  public static void main(String[] args) throws SQLException {
    String url = "${jdbcUrl(address)}";
    try (Connection connection = DriverManager.getConnection(url);
        ResultSet rows = connection.createStatement().executeQuery("select version()")) {
      rows.next();
      System.out.println(rows.getString(1));
    }
  }
}`,
    },
    shell('java -cp postgresql-42.7.8.jar Neap.java'),
  ],
})
