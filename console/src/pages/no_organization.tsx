import { useSignOut } from '../me.ts'
import { Alone } from './signed_out.tsx'

/** A person who has signed in and is a member of no organization. */
export function NoOrganization({ message }: { readonly message: string }) {
  const signOut = useSignOut()
  return (
    <Alone title="No organization">
      <p>{message}</p>
      <p>
        <button type="button" onClick={() => void signOut()}>
          Sign out
        </button>
      </p>
    </Alone>
  )
}
