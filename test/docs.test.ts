import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { documents } from './docs.ts'

test('openapi.json and the table of settings match the code (make docs writes them)', async () => {
  for (const [file, text] of await documents())
    assert.equal(readFileSync(file, 'utf8'), text, `${file.pathname} is out of date: make docs`)
})

test('links between documents resolve to files', () => {
  const root = join(import.meta.dirname, '..')
  const pages = globSync(['*.md', 'docs/**/*.md'], { cwd: root })
  const broken = pages.flatMap((page) =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!https?:)([^)#]+)/g)]
      .filter(([, target = '']) => !existsSync(join(root, dirname(page), target)))
      .map(([, target]) => `${page} → ${target}`),
  )
  assert.deepEqual(broken, [])
  assert.ok(pages.length > 10)
})
