import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { DOMAIN, type Fixture, PASSWORD } from './fixture.ts'

/** A request that no driver makes: with headers and a body of any kind. */
export interface Asked {
  readonly method?: string
  readonly path?: string
  /** Added to the connection string; `undefined` removes a header. */
  readonly headers?: Record<string, string | undefined>
  readonly body?: string | Buffer
  readonly signal?: AbortSignal
}

export interface Answer {
  readonly status: number | undefined
  readonly headers: Record<string, string | string[] | undefined>
  readonly text: string
}

/** The fields of a response, of rows or of a refusal. */
export interface Parsed {
  readonly rows: unknown[]
  readonly command: string
  readonly rowCount: number | null
  readonly results: Parsed[]
  readonly message: string
  readonly code: string | null
}

export interface SqlOverHttp {
  readonly agent: Agent
  readonly ask: (asked: Asked) => Promise<Answer>
  /** Sends JSON and parses the JSON of the response. */
  readonly json: (body: unknown, headers?: Asked['headers']) => Promise<{ status: number | undefined; body: Parsed }>
  /** The rows of a query that must succeed. */
  readonly rows: (query: string, headers?: Asked['headers']) => Promise<unknown[]>
}

/** Headers for rows as the driver wants them. */
export const RAW = { 'neon-raw-text-output': 'true', 'neon-array-mode': 'true' }

export const uriOf = (endpointId: string, password = PASSWORD): string =>
  `postgresql://alice:${encodeURIComponent(password)}@${endpointId}.${DOMAIN}/postgres`

/** Sends requests to an endpoint through a proxy, over connections that stay open until `agent` is destroyed. */
export function sqlOverHttp(fixture: Fixture, proxy: Proxy, endpointId: string): SqlOverHttp {
  const agent = new Agent({ keepAlive: true, ca: readFileSync(fixture.caFile) })

  function ask({ method = 'POST', path = '/sql', headers = {}, body = '', signal }: Asked): Promise<Answer> {
    const all = { 'neon-connection-string': uriOf(endpointId), ...headers }
    const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
    return new Promise((resolve, reject) => {
      const sent = request(
        { agent, host: '127.0.0.1', port: proxy.port, method, path, headers: given, ...(signal && { signal }) },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject)
          response.on('end', () =>
            resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(chunks).toString() }),
          )
        },
      )
      sent.on('error', reject).end(body)
    })
  }

  async function json(body: unknown, headers: Asked['headers'] = {}) {
    const { status, text } = await ask({ headers, body: JSON.stringify(body) })
    return { status, body: JSON.parse(text) as Parsed }
  }

  return {
    agent,
    ask,
    json,
    async rows(query, headers) {
      const { status, body } = await json({ query }, headers)
      assert.equal(status, 200, body.message)
      return body.rows
    },
  }
}
