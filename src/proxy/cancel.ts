import type { Duplex } from 'node:stream'
import { closeGently } from './close.ts'
import { type ComputeAddress, openCompute } from './compute.ts'

/** How long a compute may take to do with a request to cancel what it does, and close. */
const CANCEL_MS = 5_000

const LENGTH_AND_CODE = 8

export interface CancelKeys {
  /** Remembers where the session lives to which a compute gave this key (the body of BackendKeyData). The answer forgets it. */
  remember(key: Buffer, address: ComputeAddress): () => void
  /** Passes a CancelRequest on to the compute that gave out its key; says nothing either way, as Postgres does not. */
  pass(client: Duplex, packet: Buffer): void
}

export function createCancelKeys(): CancelKeys {
  const addresses = new Map<string, ComputeAddress>()

  return {
    remember(key, address) {
      const name = key.toString('latin1')
      addresses.set(name, address)
      return () => void addresses.delete(name)
    },
    pass(client, packet) {
      const address = addresses.get(packet.toString('latin1', LENGTH_AND_CODE))
      if (!address) return closeGently(client)
      const compute = openCompute(address)
      const timer = setTimeout(() => compute.destroy(), CANCEL_MS)
      compute.on('error', () => {})
      compute.once('close', () => {
        clearTimeout(timer)
        closeGently(client)
      })
      compute.once('end', () => compute.destroy())
      compute.resume()
      compute.write(packet)
    },
  }
}
