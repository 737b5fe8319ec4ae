import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { testAsOrdinaryUser, withoutOrdinaryUser } from '../../../test/ordinary_user.ts'

/** The tests that depend on file ownership. */
const STORIES = '/starts, stops|is set up|killed|adopts|stopped parent|under writes|leaves/'

test('storage and computes work as an ordinary user', { skip: withoutOrdinaryUser() }, () =>
  testAsOrdinaryUser(
    ['local.test.ts', 'clone.test.ts'].map((name) => fileURLToPath(new URL(name, import.meta.url))),
    STORIES,
  ),
)
