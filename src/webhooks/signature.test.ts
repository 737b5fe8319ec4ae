import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { newWebhookSecret, signatureHeaders } from './signature.ts'

test('the signature verifies with the current or the previous secret only', () => {
  const [one, other, third] = [newWebhookSecret(), newWebhookSecret(), newWebhookSecret()]
  const body = JSON.stringify({ type: 'webhook.test', data: { name: 'Ebbe ü 潮' } })
  const headers = signatureHeaders([one, other], 'id-1', Date.now(), body)
  for (const secret of [one, other]) assert.deepEqual(new Webhook(secret).verify(body, headers), JSON.parse(body))
  assert.throws(() => new Webhook(third).verify(body, headers), /No matching signature/)
  assert.throws(() => new Webhook(one).verify(`${body} `, headers), /No matching signature/)
  assert.throws(() => new Webhook(one).verify(body, { ...headers, 'webhook-id': 'id-2' }), /No matching signature/)
  const stale = signatureHeaders([one], 'id-1', Date.now() - 600_000, body)
  assert.throws(() => new Webhook(one).verify(body, stale), /too old/)
})
