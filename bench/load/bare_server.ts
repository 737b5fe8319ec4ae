/**
 * The baseline: a Fastify route that does one prepared select by primary key and answers the row.
 *
 *   node bare_server.ts CATALOG_URL CONNECTIONS
 */
import Fastify from 'fastify'
import pg from 'pg'

const [url = '', connections = ''] = process.argv.slice(2)
const pool = new pg.Pool({ connectionString: url, max: Number(connections) })
const app = Fastify()
app.get<{ Params: { id: string } }>('/operations/:id', async ({ params }) => {
  const { rows } = await pool.query<Record<string, unknown>>({
    name: 'operation',
    text: 'select * from operation where id = $1',
    values: [params.id],
  })
  return rows[0]
})
await app.listen({ host: '127.0.0.1', port: 0 })
process.send?.({ port: (app.server.address() as { port: number }).port })
process.once('disconnect', () => {
  void app.close().then(() => pool.end())
})
