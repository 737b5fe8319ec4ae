import { type Address, libpqUri } from './address.ts'
import { frameworks } from './framework_snippets.ts'
import { languages } from './language_snippets.ts'
import { shell, type Snippet } from './snippet.ts'

/** The lines of every client that the page knows. */
export function snippetsFor(address: Address): readonly Snippet[] {
  const uri = libpqUri(address)
  return [
    { id: 'psql', title: 'psql', parts: [shell(`psql '${uri}'`)] },
    { id: 'uri', title: 'URI', parts: [{ where: 'Connection string', text: uri }] },
    { id: 'env', title: '.env', parts: [{ where: '.env', text: `DATABASE_URL='${uri}'` }] },
    ...languages(address),
    ...frameworks(address),
  ]
}
