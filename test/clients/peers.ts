import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/* The public clients that `make peers` installs, at the versions that test/clients/peers pins. */

/** The path of a file of an installed client. */
export const peer = (path: string): string => fileURLToPath(new URL(`../../.peers/${path}`, import.meta.url))

/** For the `skip` of a test: which of these files are not installed. Returns false when all are. */
export function withoutPeers(...paths: readonly string[]): string | false {
  const absent = paths.filter((path) => !existsSync(peer(path)))
  const [known] = absent.map((path) => peer(`${path}.absent`)).filter((note) => existsSync(note))
  if (known !== undefined) return readFileSync(known, 'utf8').trim()
  return absent.length > 0 && `not installed: ${absent.join(', ')}; run make peers`
}
