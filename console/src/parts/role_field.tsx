import { Field } from './field.tsx'

const ROLES = {
  viewer: 'viewer: sees projects',
  editor: 'editor: sees and changes projects',
  admin: 'admin: everything, also members and keys',
} as const

type RoleName = keyof typeof ROLES

/** Why an action on members is not to be had by others than admins. */
export const ONLY_ADMINS = 'Only admins of the organization may do that. Ask one of them.'

/** A choice of roles, each with what it may do. */
export function RoleField({ role }: { readonly role: RoleName }) {
  return (
    <Field label="Role">
      <select name="role" defaultValue={role}>
        {Object.entries(ROLES).map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
      </select>
    </Field>
  )
}
