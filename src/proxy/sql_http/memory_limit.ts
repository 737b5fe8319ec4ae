import { Refusal } from './refusal.ts'

/** Limits of bytes in memory for requests, messages and answers that are not forwarded: per endpoint, and in total. */
const MAX_BYTES_PER_ENDPOINT = 128 * 2 ** 20
const MAX_BYTES = 256 * 2 ** 20

/** Counts the bytes kept in memory for clients that have logged in, and limits them per endpoint and in total. */
export interface MemoryLimit {
  /**
   * Begins to count for a request of an endpoint.
   * @param drop called when the request must release its bytes: the total is too high, and its endpoint uses the most
   */
  reserve(endpointId: string, drop: () => void): MemoryReservation
}

export interface MemoryReservation {
  /** Counts more bytes. Errors: Refusal (the endpoint uses too much). */
  add(bytes: number): void
  /** Counts an answer to executed statements. The oldest requests of the endpoint make room for it. */
  keep(bytes: number): void
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

export function createMemoryLimit(maxPerEndpoint = MAX_BYTES_PER_ENDPOINT, max = MAX_BYTES): MemoryLimit {
  const endpoints = new Map<string, Endpoint>()
  let total = 0

  function release(endpointId: string, counted: Counted): void {
    const endpoint = endpoints.get(endpointId)
    if (!endpoint?.all.delete(counted)) return
    total -= counted.bytes
    endpoint.bytes -= counted.bytes
    if (endpoint.all.size === 0) endpoints.delete(endpointId)
  }

  /** Drops the oldest of the endpoint that uses the most. */
  function dropOne(): void {
    let largest: [string, Endpoint] | undefined
    for (const each of endpoints) if (each[1].bytes > (largest?.[1].bytes ?? 0)) largest = each
    if (largest) dropOldest(...largest)
  }

  function dropOldest(endpointId: string, { all }: Endpoint): void {
    const [oldest] = all
    if (!oldest) return
    release(endpointId, oldest)
    oldest.drop()
  }

  return {
    reserve(endpointId, drop) {
      const counted: Counted = { bytes: 0, drop }
      const endpoint = endpoints.get(endpointId) ?? { bytes: 0, all: new Set() }
      endpoints.set(endpointId, endpoint)
      endpoint.all.add(counted)
      const count = (bytes: number): void => {
        counted.bytes += bytes
        endpoint.bytes += bytes
        total += bytes
        while (total > max) dropOne()
      }
      return {
        add(bytes) {
          if (!endpoint.all.has(counted)) return
          if (endpoint.bytes + bytes > maxPerEndpoint) throw tooMuchMemory()
          count(bytes)
        },
        keep(bytes) {
          if (!endpoint.all.delete(counted)) return
          // The newest from now on.
          endpoint.all.add(counted)
          while (endpoint.bytes + bytes > maxPerEndpoint && endpoint.all.size > 1) dropOldest(endpointId, endpoint)
          count(bytes)
        },
        release: () => release(endpointId, counted),
      }
    },
  }
}

export const tooMuchMemory = (): Refusal =>
  new Refusal(503, 'Too many large requests to this endpoint at once: try again when others have ended.')
