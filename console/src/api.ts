import type { ApiClient, ApiInput, ApiResponse, RouteKey } from '../../src/client.ts'
import { organization as shownOrganization } from './organization.ts'

export type Branch = ApiResponse<'GET /projects/:project_id/branches'>['branches'][number]
export type Endpoint = ApiResponse<'GET /projects/:project_id/endpoints'>['endpoints'][number]
export type Operation = ApiResponse<'GET /projects/:project_id/operations'>['operations'][number]

/** The path of the API at the console's origin. */
export const BASE = '/api/v2'

/** An answer of the API other than success, or none at all (status 0). */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly code: string
  /** When the API asks to be asked again (RFC 9110, section 10.2.3); undefined where it does not say. */
  readonly retryAfterSeconds: number | undefined

  constructor(status: number, code: string, message: string, retryAfterSeconds?: number) {
    super(message)
    this.status = status
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** Whether an error says that the browser is not signed in. */
export const isSignedOut = (error: unknown): boolean => error instanceof ApiError && error.status === 401

/** Whether an error says that what was asked for is not there. */
export const isGone = (error: unknown): boolean => error instanceof ApiError && error.status === 404

const LOOK_MS = 1_000

const AWAY = new ApiError(0, 'AWAY', 'Neap does not answer. The page goes on when it is back.')

let isAway = false
const listeners = new Set<() => void>()

function setAway(away: boolean): void {
  if (away === isAway) return
  isAway = away
  for (const listener of listeners) listener()
  if (away && !isLooking) void lookUntilBack()
}

let isLooking = false

/** Asks whether the API is back, until it is: pages that ask for nothing else would not notice. */
async function lookUntilBack(): Promise<void> {
  isLooking = true
  while (isAway) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    // `send` notes the outcome.
    await send('GET', `${BASE}/auth`).catch(() => undefined)
  }
  isLooking = false
}

/** Asks whether the API answers, and returns once it does. Returns whether it was away. */
export async function untilReachable(): Promise<boolean> {
  await send('GET', `${BASE}/auth`).catch(() => undefined)
  if (!isAway) return false
  await new Promise<void>((resolve) => {
    const stop = reachability.subscribe(() => {
      stop()
      resolve()
    })
  })
  return true
}

/** Whether the last request had no answer from the API, or one that it cannot serve now. */
export const reachability = {
  isAway: () => isAway,
  subscribe: (listener: () => void) => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  },
}

interface SentWith {
  /** Sent as JSON. */
  readonly body?: unknown
  readonly signal?: AbortSignal
  /** The event of a stream after which to go on. */
  readonly lastEventId?: string | undefined
  /** The id of the organization that it is for; unless given, the one that this page shows. */
  readonly organization?: string | undefined
}

/** Sends a request with the session's cookie. Errors: ApiError. */
export async function send(method: string, path: string, init: SentWith = {}): Promise<Response> {
  const { body, signal, lastEventId, organization = shownOrganization } = init
  const response = await fetch(path, {
    method,
    headers: {
      'neap-organization': organization,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error
    setAway(true)
    throw AWAY
  })
  setAway(response.status === 503)
  if (response.ok) return response
  const { code, message } = (await response.json().catch(() => ({}))) as { code?: string; message?: string }
  throw new ApiError(
    response.status,
    code ?? 'UNKNOWN',
    message ?? `The API answered with the status ${response.status}.`,
    Number(response.headers.get('retry-after')) || undefined,
  )
}

/** A request to the API that can be shown before it is sent. */
export interface Prepared<Answer> {
  readonly method: string
  /** The path below `BASE`, with its query. */
  readonly path: string
  readonly body: unknown
  /** Sends it, for another organization than the page's if one is given. Errors: ApiError. */
  readonly send: (organization?: string) => Promise<Answer>
}

/** Prepares a request to a route of the API. */
export function prepare<K extends RouteKey>(key: K, input: ApiInput<K>): Prepared<ApiResponse<K>> {
  const [method, template] = key.split(' ') as [string, string]
  const {
    params = {},
    query = {},
    body,
  } = input as {
    params?: Record<string, string | number>
    query?: Record<string, string | number | boolean | undefined>
    body?: unknown
  }
  const filled = template.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(params[name])))
  const search = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  ).toString()
  const path = `${filled}${search && `?${search}`}`
  return {
    method,
    path,
    body,
    send: async (organization) =>
      (await send(method, `${BASE}${path}`, { body, organization })).json() as Promise<ApiResponse<K>>,
  }
}

/** Calls a route of the API, as Neap's own client does. Errors: ApiError. */
export const call: ApiClient = (key, input) => prepare(key, input).send()
