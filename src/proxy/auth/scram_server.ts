import { timingSafeEqual } from 'node:crypto'
import { hmac, storedKeyOf } from '../../postgres/scram_keys.ts'
import { KEY_BYTES, newNonce, SCRAM_PLUS, type ScramKeys, xor } from '../wire/scram.ts'
import type { Verifier } from './verifier.ts'

/** The server side of one exchange, with messages in order. Methods return undefined for malformed messages. */
export interface ScramServer {
  /** @param mechanism the client's choice */
  challenge(mechanism: string, clientFirst: string): string | undefined
  /** Returns the final message to the client and the keys, or `wrong` for a wrong proof. */
  verify(clientFinal: string): { readonly serverFinal: string; readonly keys: ScramKeys } | 'wrong' | undefined
}

/** @param binding hash of the server's certificate (`tls-server-end-point`, RFC 5929), if it was offered */
export function scramServer(verifier: Verifier, binding: Buffer | undefined, nonce = newNonce()): ScramServer {
  let header = ''
  let clientBare = ''
  let serverFirst = ''
  let bound = Buffer.alloc(0)

  return {
    challenge(mechanism, clientFirst) {
      const [, gs2 = '', flag = '', bare = ''] =
        /^(((?:n|y|p=[A-Za-z0-9.-]+)),(?:a=[^,]*)?,)(.*)$/s.exec(clientFirst) ?? []
      const clientNonce = /^n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+)(?:,|$)/.exec(bare)?.[1]
      if (clientNonce === undefined) return undefined
      const plus = mechanism === SCRAM_PLUS
      if (plus ? flag !== 'p=tls-server-end-point' : flag.startsWith('p=')) return undefined
      // The client supports channel binding but believes that the server does not: a downgrade by a man in the middle.
      if (flag === 'y' && binding) return undefined
      header = gs2
      clientBare = bare
      bound = plus && binding ? Buffer.from(binding) : bound
      serverFirst = `r=${clientNonce}${nonce},s=${verifier.salt.toString('base64')},i=${verifier.iterations}`
      return serverFirst
    },
    verify(clientFinal) {
      const [, withoutProof = '', channel = '', sentNonce = '', proof64 = ''] =
        /^(c=([A-Za-z0-9+/=]+),r=([^,]+)(?:,[^p][^,]*)*),p=([A-Za-z0-9+/=]+)$/.exec(clientFinal) ?? []
      const proof = Buffer.from(proof64, 'base64')
      if (serverFirst === '' || proof.length !== KEY_BYTES) return undefined
      if (!serverFirst.startsWith(`r=${sentNonce},s=`)) return undefined
      const expected = Buffer.concat([Buffer.from(header), bound]).toString('base64')
      if (channel !== expected) return 'wrong'
      const message = `${clientBare},${serverFirst},${withoutProof}`
      const clientKey = xor(proof, hmac(verifier.storedKey, message))
      if (!timingSafeEqual(storedKeyOf(clientKey), verifier.storedKey)) return 'wrong'
      const { serverKey } = verifier
      return { serverFinal: `v=${hmac(serverKey, message).toString('base64')}`, keys: { clientKey, serverKey } }
    },
  }
}
