import { RECORDINGS, sweep } from './sweep.ts'

sweep(RECORDINGS, 'openai-responses', 'anthropic-messages')
