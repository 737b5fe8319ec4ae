import { Refusal } from './refusal.ts'

/** Limits of bytes in memory for incomplete or unforwarded requests and messages: per endpoint, and in total. */
const MAX_BYTES_PER_ENDPOINT = 128 * 2 ** 20
const MAX_BYTES = 256 * 2 ** 20

/** Counts the bytes kept in memory for clients that have logged in, and limits them per endpoint and in total. */
export interface HeldBytes {
  /**
   * Begins to count for a request of an endpoint.
   * @param drop called when the request must release its bytes: the total is too high, and its endpoint holds the most
   */
  hold(endpointId: string, drop: () => void): BytesReservation
}

export interface BytesReservation {
  /** Counts more bytes. Errors: Refusal (the endpoint holds too many). */
  add(bytes: number): void
  release(): void
}

interface Counted {
  bytes: number
  readonly drop: () => void
}

interface Endpoint {
  bytes: number
  /** Oldest first. */
  readonly all: Set<Counted>
}

export function createHeldBytes(maxPerEndpoint = MAX_BYTES_PER_ENDPOINT, max = MAX_BYTES): HeldBytes {
  const endpoints = new Map<string, Endpoint>()
  let total = 0

  function release(endpointId: string, counted: Counted): void {
    const endpoint = endpoints.get(endpointId)
    if (!endpoint?.all.delete(counted)) return
    total -= counted.bytes
    endpoint.bytes -= counted.bytes
    if (endpoint.all.size === 0) endpoints.delete(endpointId)
  }

  /** Drops the oldest of the endpoint that holds the most. */
  function dropOne(): void {
    let largest: [string, Endpoint] | undefined
    for (const each of endpoints) if (each[1].bytes > (largest?.[1].bytes ?? 0)) largest = each
    const [oldest] = largest?.[1].all ?? []
    if (!largest || !oldest) return
    release(largest[0], oldest)
    oldest.drop()
  }

  return {
    hold(endpointId, drop) {
      const counted: Counted = { bytes: 0, drop }
      const endpoint = endpoints.get(endpointId) ?? { bytes: 0, all: new Set() }
      endpoints.set(endpointId, endpoint)
      endpoint.all.add(counted)
      return {
        add(bytes) {
          if (!endpoint.all.has(counted)) return
          if (endpoint.bytes + bytes > maxPerEndpoint) throw tooManyBytes()
          counted.bytes += bytes
          endpoint.bytes += bytes
          total += bytes
          while (total > max) dropOne()
        },
        release: () => release(endpointId, counted),
      }
    },
  }
}

export const tooManyBytes = (): Refusal =>
  new Refusal(503, 'Too many large requests to this endpoint at once: try again when others have ended.')
