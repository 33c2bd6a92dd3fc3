/** Asks the issuer again whether a person has access, by the refresh token that it gave. */
import type { SignedIn, SignInSettings } from '../../../core/sign-in.ts'
import type { LoginPerson, PersonLogin } from '../../../records/store/record-operations.ts'
import { identify } from './identity.ts'
import { type IssuerCalls, SignInRefused } from './issuer.ts'
import { unseal } from './sealing.ts'
import { messageOf, storedLogin } from './steps.ts'

/** `ended`: the person has no access. `away`: the issuer does not answer, or does not know the gateway. `reason`: for the log. */
export type Rechecked =
  | { readonly result: 'kept'; readonly person: SignedIn; readonly login: PersonLogin }
  | { readonly result: 'ended' | 'away'; readonly reason: string }

/** `now`: ms since 1970. */
export const recheck = async (
  issuers: IssuerCalls,
  settings: SignInSettings | null,
  { person, login }: { readonly person: LoginPerson; readonly login: PersonLogin },
  now: () => number,
): Promise<Rechecked> => {
  const provider = settings?.providers.find(({ name }) => name === person.provider)
  if (!settings || !provider) return { result: 'ended', reason: 'the issuer is no longer configured' }
  const token = login.refreshToken && unseal(settings.secrets, 'token', login.refreshToken)
  if (!token) return { result: 'ended', reason: 'the refresh token cannot be decrypted with sso.secret' }
  try {
    const answer = await issuers.refresh(provider, token)
    const found = await identify(issuers, provider, answer, person)
    if (!found.ok) return { result: 'ended', reason: found.why }
    const tokens = { ...answer, refreshToken: answer.refreshToken ?? token }
    const next = storedLogin(settings, tokens, { begun: login.begun, checked: now() })
    return { result: 'kept', person: found.person, login: { ...next, idToken: next.idToken ?? login.idToken } }
  } catch (error) {
    const isRefused = error instanceof SignInRefused && (error.code === 'invalid_grant' || error.code === null)
    return { result: isRefused ? 'ended' : 'away', reason: messageOf(error) }
  }
}
