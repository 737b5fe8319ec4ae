import { Copied } from '../parts/copied.tsx'

/** How to sign in. */
export function SignedOut({ problem }: { readonly problem: string | undefined }) {
  return (
    <main className="alone">
      <img src="/icon.svg" alt="" width="48" height="48" />
      <h1>Sign in to Neap</h1>
      {problem !== undefined && <p role="alert">{problem}</p>}
      <p>On the machine that runs Neap, make a link and open it here:</p>
      <p>
        <Copied text="npx neap sign-in" what="the command" />
      </p>
    </main>
  )
}
