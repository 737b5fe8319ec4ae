import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { documents } from './docs.ts'

test('openapi.json and the table of settings are what the code says (make docs writes them)', async () => {
  for (const [file, text] of await documents())
    assert.equal(readFileSync(file, 'utf8'), text, `${file.pathname} is out of date: make docs`)
})
