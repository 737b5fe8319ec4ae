import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { without } from '../clients.ts'
import { run } from '../neap.ts'
import { withoutOrdinaryUser } from '../ordinary_user.ts'

/* Computes with egress, in simulated networks of namespaces: which addresses they reach and which not. */

const file = (name: string) => fileURLToPath(new URL(`egress/${name}`, import.meta.url))
const absent = () => (process.getuid?.() === 0 ? without('pasta', 'nft', 'ip', 'unshare', 'nsenter') : 'not root')

async function inWorld(user: 'root' | 'ordinary', means: 'whole' | 'without-pasta', tests: string): Promise<void> {
  // With the runner's own environment variable, a nested test runner would run no tests.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const args = ['--net', '--mount', process.execPath, file('world.ts'), user, means, file(tests)]
  const { code, stdout, stderr } = await run('unshare', args, env)
  assert.equal(code, 0, stdout + stderr)
}

test('a compute with egress reaches only public addresses and named networks', { skip: absent() }, () =>
  inWorld('root', 'whole', 'attacks.ts'),
)

test(
  'the computes of an ordinary user with egress reach only those addresses too',
  { skip: absent() || withoutOrdinaryUser() },
  () => inWorld('ordinary', 'whole', 'attacks.ts'),
)

test('without pasta a compute starts without egress, and Neap reports the reason', { skip: absent() }, () =>
  inWorld('root', 'without-pasta', 'missing.ts'),
)
