import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { testAsOrdinaryUser, withoutOrdinaryUser } from '../ordinary_user.ts'

/* In an ordinary user's installation all computes run as that user: only their walls separate them. */

test('the walls of a compute hold in an ordinary user’s installation', { skip: withoutOrdinaryUser() }, () =>
  testAsOrdinaryUser([fileURLToPath(new URL('compute.test.ts', import.meta.url))]),
)
