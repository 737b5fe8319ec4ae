import type { Answer } from '../http.ts'
import type { Neap } from '../neap.ts'
import type { Input } from './every_route.ts'
import type { Things } from './scene.ts'

const NO_ID = '00000000-0000-7000-8000-000000000005'

/** Default values for the placeholders of a path. */
export const placeholders = (things: Things): Record<string, string | number> => ({
  ...things,
  org_id: things.organization_id,
  region_id: 'local',
  role_name: things.role,
  database_name: things.database,
  // Of persons, whom no key is: only their form counts.
  passkey_id: NO_ID,
  identity_id: NO_ID,
})

export interface Ready {
  readonly method: string
  readonly path: string
  readonly body?: unknown
}

/** The request of a route with this input; the scene's things fill the other placeholders. */
export function requestOf(key: string, things: Things, { params, query, body }: Input): Ready {
  const [method = '', template = ''] = key.split(' ')
  const values = { ...placeholders(things), ...params }
  const path = template.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(values[name])))
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) search.set(name, String(value))
  return { method, path: search.size > 0 ? `${path}?${search.toString()}` : path, ...(body !== undefined && { body }) }
}

/** Sends it. Of an event stream, which has no end, it reads only the beginning. */
export async function ask(
  neap: Neap,
  key: string,
  { method, path, body }: Ready,
  given: Record<string, string> = {},
): Promise<Answer & { text: string }> {
  const enough = new AbortController()
  const response = await fetch(`${neap.ready.api_url}${path}`, {
    method,
    headers: {
      ...given,
      authorization: `Bearer ${key}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: enough.signal,
  })
  const { status, headers } = response
  if (headers.get('content-type')?.startsWith('text/event-stream')) {
    enough.abort()
    return { status, headers, text: '', body: {} }
  }
  const text = await response.text()
  const isJson = headers.get('content-type')?.startsWith('application/json')
  return { status, headers, text, body: isJson ? (JSON.parse(text) as Answer['body']) : {} }
}
