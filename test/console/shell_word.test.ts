import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { shellWord } from '../../console/src/parts/shell_word.ts'

const HOSTILE = [
  'plain-name',
  'two words',
  'it\'s $(id) `id` \\ "quoted" !! ;',
  'erased\u0015id\r',
  "un\u007fd\u009bone\u001b[201~\n'\\n",
  'ä😀\t',
]

test('a name in a command is one word of the shell, and holds no control character', () => {
  for (const name of HOSTILE) {
    const word = shellWord(name)
    assert.doesNotMatch(word, /\p{Cc}/u)
    assert.equal(execFileSync('bash', ['-c', `printf %s ${word}`], { encoding: 'utf8' }), name)
  }
})
