import { timingSafeEqual } from 'node:crypto'
import { hmac, storedKeyOf } from '../../postgres/scram_keys.ts'
import { newNonce, type ScramKeys, xor } from '../wire/scram.ts'

/** The client side, with keys instead of a password. */
export interface ScramClient {
  readonly first: string
  /** Returns the response to the server's challenge. Returns undefined for a malformed challenge. */
  prove(serverFirst: string, keys: ScramKeys): string | undefined
  /** Whether the server has proved that it knows the verifier. */
  isServer(serverFinal: string): boolean
}

export function scramClient(nonce = newNonce()): ScramClient {
  const bare = `n=,r=${nonce}`
  let expected: Buffer | undefined
  return {
    first: `n,,${bare}`,
    prove(serverFirst, { clientKey, serverKey }) {
      const both = /^r=([^,]+),s=[A-Za-z0-9+/=]+,i=\d+$/.exec(serverFirst)?.[1]
      if (both === undefined || !both.startsWith(nonce) || both === nonce) return undefined
      const withoutProof = `c=biws,r=${both}`
      const message = `${bare},${serverFirst},${withoutProof}`
      expected = hmac(serverKey, message)
      const proof = xor(clientKey, hmac(storedKeyOf(clientKey), message))
      return `${withoutProof},p=${proof.toString('base64')}`
    },
    isServer(serverFinal) {
      const signature = Buffer.from(/^v=([A-Za-z0-9+/=]+)/.exec(serverFinal)?.[1] ?? '', 'base64')
      return signature.length === expected?.length && timingSafeEqual(signature, expected)
    },
  }
}
