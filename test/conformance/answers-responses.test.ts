import { sweep } from './sweep.ts'

sweep('openai-responses', 'anthropic-messages')
