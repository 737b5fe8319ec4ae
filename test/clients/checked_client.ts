import assert from 'node:assert/strict'
import { type Api, createApiClient } from '@neondatabase/api-client'
import { routeOf, wrongIn } from './shipped_contract.ts'

/**
 * The requests sent through the client, and the deviations of their answers from the document that the client ships.
 */
export interface Seen {
  /** The statuses of each route's answers. */
  readonly statuses: Map<string, Set<number>>
  readonly wrong: { readonly route: string; readonly what: string }[]
}

interface Answer {
  readonly status: number
  readonly data: unknown
  readonly config: { readonly method?: string; readonly url?: string }
}

/** The public client, unmodified; it records the deviations of each answer, including refusals, in `seen`. */
export function checkedClient(baseURL: string, apiKey: string | null, seen: Seen): Api<unknown> {
  const client = createApiClient({ apiKey, baseURL })
  client.instance.interceptors.response.use(
    (answer) => {
      note(seen, answer)
      return answer
    },
    (error: unknown) => {
      const { response } = error as { response?: Answer }
      if (response) note(seen, response)
      throw error
    },
  )
  return client
}

function note({ statuses, wrong }: Seen, { status, data, config: { method = '', url = '' } }: Answer): void {
  const route = routeOf(method, new URL(url, 'http://neap/').pathname) ?? `${method} ${url}`
  statuses.set(route, (statuses.get(route) ?? new Set()).add(status))
  wrong.push(...wrongIn(route, status, data).map((what) => ({ route, what: `${status} ${what}` })))
}

/** The answer to a request that must fail. */
export async function refusal(
  request: Promise<unknown>,
): Promise<{ readonly status: number; readonly code: string; readonly message: string }> {
  try {
    await request
  } catch (error) {
    const { response } = error as { response?: { status: number; data: { code: string; message: string } } }
    if (!response) throw error
    return { status: response.status, ...response.data }
  }
  return assert.fail('the request was not refused')
}
