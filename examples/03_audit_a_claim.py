"""Put two claims to the test: one of ours, and one that does not hold. It takes ten seconds."""

import masquerade as mq

for name in ("gaussian_noise", "video_dprp_value"):
    game = mq.find_game(name)
    claim, evidence = game.claim(), mq.audit_game(game)
    verdict = "refuted" if evidence.refutes(claim.epsilon) else "not refuted"
    print(f"{claim.source}: claimed {claim.epsilon:g}, at least {evidence.epsilon_at_least:.3g}")
    print(f"  {verdict}; assumes {evidence.assumes}")
