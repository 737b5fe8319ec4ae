import { type Static, Type } from 'typebox'
import type { Account } from '../catalog/account.ts'

const Text = Type.String()

export const BillingAccount = Type.Object({
  state: Text,
  payment_source: Type.Object({ type: Text }),
  payment_method: Text,
  subscription_type: Text,
  quota_reset_at_last: Type.String({ format: 'date-time' }),
  name: Text,
  email: Text,
  address_line1: Text,
  address_line2: Text,
  address_postal_code: Text,
  address_city: Text,
  address_state: Text,
  address_country: Text,
})

/** The billing account of an account. Neap bills no one, but public clients read all of these fields. */
export const billingAccount = ({ name, email, plan, created_at }: Account): Static<typeof BillingAccount> => ({
  state: 'UNKNOWN',
  payment_source: { type: 'none' },
  payment_method: 'none',
  subscription_type: subscriptionType(plan),
  // The clients' document defines this as the account's creation when no reset has happened.
  quota_reset_at_last: created_at,
  name,
  email,
  address_line1: '',
  address_line2: '',
  address_postal_code: '',
  address_city: '',
  address_state: '',
  address_country: '',
})

/** Clients know a closed list of subscriptions; only the free one matches a plan of Neap. */
export const subscriptionType = (plan: Account['plan']): string => (plan === 'free' ? 'free_v3' : 'UNKNOWN')
