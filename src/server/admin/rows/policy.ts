/** The data policy: whether claims about it hold for the running configuration and the accounts in effect. */
import { z } from 'zod'
import { bad, good } from '../../../core/failure.ts'
import { inTurns } from '../../../core/steps.ts'
import { MAX_CLAIM, parseClaim } from '../../../policy/prove/claim.ts'
import { proveSteps } from '../../../policy/prove/prove.ts'
import { CLAIMS, PROOF } from '../../answers/policy.ts'
import { claimStatesOf, proofInputOf } from '../claims.ts'
import { row } from '../row.ts'

const WALKED = { clients: 41, classes: 6, names: 214, plans: 12_840 }
const FAILED = {
  claim: 'team=health: region=eu; retention=0',
  holds: false,
  counterexamples: [
    {
      key: 'ci-health',
      rule: null,
      person: null,
      team: 'health',
      name: 'fast',
      style: 'messages',
      provider: 'openai',
      model: 'gpt-5',
      because: 'fallback: any',
      lack: 'region us',
      after: ['azure-eu'],
    },
  ],
  walked: WALKED,
}

export const policyRows = [
  row({
    method: 'GET',
    path: '/claims',
    summary: 'List the claims of the configuration, and whether they hold now',
    about: 'They are proved for the running configuration and all teams, keys and rules for tokens in effect.',
    role: 'viewer',
    scope: 'all',
    answer: CLAIMS,
    example: {
      answer: {
        object: 'claims',
        on_failure: 'warn',
        data: [
          {
            claim: FAILED.claim,
            state: 'fails',
            problem:
              'key ci-health asks "fast" (messages) while azure-eu is down → fallback: any → openai/gpt-5 (region us)',
            proof: FAILED,
          },
        ],
      },
    },
    async handle(deps) {
      const { claims, settings } = deps.configuration.running()
      const states = await claimStatesOf(
        deps,
        proofInputOf(deps),
        claims.map(({ text }) => text),
      )
      return good({ body: { object: 'claims' as const, on_failure: settings.prove.onFailure, data: [...states] } })
    },
  }),
  row({
    method: 'POST',
    path: '/prove',
    summary: 'Prove a claim about the data policy, or show how it fails',
    about:
      'For the running configuration and the accounts in effect. Whatever is down, and whatever a request itself requires: the targets that it may reach are the whole plan. Nothing is sent upstream.',
    role: 'viewer',
    scope: 'all',
    body: z.strictObject({
      claim: z.string().max(MAX_CLAIM).describe('`team=health: region in eu,local; retention=0`'),
    }),
    answer: PROOF,
    example: { body: { claim: 'all: region in eu,local' }, answer: { object: 'proof', ...FAILED } },
    async handle(deps, { body }) {
      const claim = parseClaim(body.claim)
      if (!claim.ok) return bad(claim.failure)
      const proved = await inTurns(proveSteps(proofInputOf(deps), claim.value), deps.gateway.world.turn)
      return proved.ok ? good({ body: { object: 'proof' as const, ...proved.value } }) : bad(proved.failure)
    },
  }),
]
