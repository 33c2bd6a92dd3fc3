/** The sign-in: a dialog over the page, which stays as it is. Identity providers are links; a token is a form. After each wrong token the next try waits longer. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { ApiError, type IdentityProviderLink, identityProviders, signIn, signInNeeded } from '../api.ts'
import { en } from '../words/en.ts'
import { Dialog } from './dialog.tsx'

/** s that the longest wait lasts. The gateway limits the tries of an address, too. */
const LONGEST_WAIT = 30

const Providers = ({ links }: { readonly links: readonly IdentityProviderLink[] }) => (
  <div class="stack">
    {links.map(({ provider, url }) => (
      <a key={provider} class="button primary" href={url}>
        {en.session.with(provider)}
      </a>
    ))}
  </div>
)

const Choice = () => {
  const links = useSignal<readonly IdentityProviderLink[]>([])
  useEffect(() => {
    void identityProviders().then((found) => {
      links.value = found
    })
  }, [links])
  const hasProviders = links.value.length > 0
  return (
    <div class="stack">
      {hasProviders && <Providers links={links.value} />}
      <Form isAlone={!hasProviders} />
    </div>
  )
}

const Form = ({ isAlone }: { readonly isAlone: boolean }) => {
  const problem = useSignal('')
  const isBusy = useSignal(false)
  const wait = useSignal(0)
  const failures = useRef(0)
  const isWaiting = wait.value > 0
  useEffect(() => {
    if (!isWaiting) return
    const timer = setInterval(() => {
      wait.value = Math.max(0, wait.value - 1)
    }, 1_000)
    return () => clearInterval(timer)
  }, [isWaiting])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    if (!(event.currentTarget instanceof HTMLFormElement) || isBusy.value || wait.value > 0) return
    const form = event.currentTarget
    isBusy.value = true
    problem.value = ''
    try {
      await signIn(String(new FormData(form).get('token')))
    } catch (error) {
      const isWrong = error instanceof ApiError && error.problem.status === 401
      problem.value = isWrong || !(error instanceof ApiError) ? en.session.wrong : error.problem.message
      if (isWrong) wait.value = Math.min(LONGEST_WAIT, 2 ** failures.current++)
      const field = form.querySelector('input')
      field?.focus()
      field?.select()
    }
    isBusy.value = false
  }
  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      <p>{signInNeeded.value === 'again' ? en.session.again : isAlone ? en.session.about : en.session.orToken}</p>
      <label class="field">
        {en.session.token}
        <input
          data-focus
          type="password"
          name="token"
          required
          autocomplete="current-password"
          aria-invalid={problem.value !== ''}
          aria-describedby="sign-in-problem"
        />
      </label>
      <p id="sign-in-problem" class="bad" role="alert">
        {problem.value}
      </p>
      <div class="row end">
        {isWaiting && <span class="dim num">{en.session.wait(wait.value)}</span>}
        <button type="submit" class="button primary" disabled={isBusy.value || isWaiting}>
          {en.session.submit}
        </button>
      </div>
    </form>
  )
}

export const SignIn = () =>
  signInNeeded.value === 'no' ? null : (
    <Dialog title={en.session.title}>
      <Choice />
    </Dialog>
  )
