/** The sign-in is a dialog over any page; this address only opens it. */
import { useEffect } from 'preact/hooks'
import { session, signInNeeded } from '../api.ts'
import { PageHead } from '../parts/states.tsx'
import { go } from '../store.ts'
import { en } from '../words/en.ts'

export const Page = () => {
  const isNeeded = signInNeeded.value !== 'no'
  const known = session.value
  useEffect(() => {
    if (known && !isNeeded) go({ page: 'overview', id: null, from: null, to: null, params: {} }, 'replace')
  }, [known, isNeeded])
  return <PageHead title={en.pages.login} />
}
