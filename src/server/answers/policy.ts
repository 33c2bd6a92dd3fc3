/** Claims about the data policy, and their proofs. */
import { z } from 'zod'

const counterexample = z
  .strictObject({
    key: z.string().nullable().describe('Name of the key; null: there is none'),
    rule: z.string().nullable().describe('Name of the rule of `auth.jwt` that admits the token; null: there is none'),
    person: z
      .int()
      .nullable()
      .describe('Place of the rule in `sso.teams` that names the team of the person; null: none'),
    team: z.string(),
    name: z.string().describe('What the request has as `model`'),
    style: z.string(),
    provider: z.string(),
    model: z.string(),
    because: z.string().describe('Why the target is in the plan'),
    lack: z.string().describe('What it lacks, such as `region us`'),
    after: z.array(z.string()).describe('Providers that must fail before; empty: it may be the first'),
  })
  .meta({ id: 'Counterexample' })

const proof = {
  claim: z.string().describe('In its normal form'),
  holds: z.boolean(),
  counterexamples: z.array(counterexample).describe('At most ten, the shortest ways first'),
  walked: z.strictObject({
    clients: z.int(),
    classes: z.int().describe('Clients with the same access and requirements are one class'),
    names: z.int(),
    plans: z
      .int()
      .describe(
        'Plans that were made: of clients and names that may lead to a target that is against the claim. 0: none may',
      ),
  }),
}

export const PROOF = z.strictObject({ object: z.literal('proof'), ...proof }).meta({ id: 'Proof' })

export const CLAIMS = z
  .strictObject({
    object: z.literal('claims'),
    on_failure: z.enum(['warn', 'refuse']),
    data: z.array(
      z.strictObject({
        claim: z.string(),
        state: z.enum(['holds', 'fails', 'invalid']).describe('`invalid`: it names what does not exist'),
        problem: z.string().nullable().describe('Why it does not hold, as one line; null: it holds'),
        proof: z.strictObject(proof).nullable(),
      }),
    ),
  })
  .meta({ id: 'Claims' })
