"""Put two claims to the test: one of ours, and one that does not hold. It takes ten seconds."""

from masquerade.audit.video_dprp_value import VideoDprpValue
from masquerade.doors.audit import audit, find_game

for game in (find_game("gaussian_noise"), VideoDprpValue()):
    claim, evidence = game.claim(), audit(game)
    verdict = "refuted" if evidence.refutes(claim.epsilon) else "not refuted"
    print(f"{claim.source}: claimed {claim.epsilon:g}, at least {evidence.epsilon_at_least:.3g}")
    print(f"  {verdict}; assumes {evidence.assumes}")
