"""Where recordings come from: Stage, the embedded world, and one file per public data set."""

from pathlib import Path

from masquerade.catalog import CatalogEntry

ENTRIES = {
    "coco_keypoints": CatalogEntry(
        "datasets.coco_pose:CocoKeypoints",
        "COCO 2017, people with labelled joints.",
        dict(root=Path("coco")),
    ),
    "folder": CatalogEntry(
        "datasets.folder:Folder",
        "Videos and pictures of your own, one folder a class.",
        dict(root=Path("videos")),
    ),
    "hmdb51": CatalogEntry(
        "datasets.hmdb51:HMDB51",
        "HMDB51: 6,766 clips of films and web videos of 51 kinds of action.",
        dict(root=Path("hmdb51")),
    ),
    "human_art": CatalogEntry(
        "datasets.coco_pose:HumanArt",
        "Human-Art: people in photographs, paintings, sculptures and drawings.",
        dict(root=Path("HumanArt")),
    ),
    "manifest": CatalogEntry(
        "datasets.manifest:Manifest",
        "Recordings of your own, listed in one table: videos, photos or worn sensors.",
        dict(table=Path("recordings.csv")),
    ),
    "mpii": CatalogEntry(
        "datasets.mpii:Mpii",
        "MPII Human Pose: people doing 410 activities, with 16 joints and the size of the head.",
        dict(root=Path("mpii")),
    ),
    "ntu_rgbd": CatalogEntry(
        "datasets.ntu_rgbd:NtuRgbd",
        "NTU RGB+D: 56,880 (or 114,480) filmed actions of 40 (or 106) people, from three sides.",
        dict(root=Path("ntu_rgbd")),
    ),
    "pa_hmdb51": CatalogEntry(
        "datasets.hmdb51:PAHMDB51",
        "PA-HMDB51: 515 clips of HMDB51 with five private attributes for each frame.",
        dict(root=Path("hmdb51"), annotations=Path("PA-HMDB51")),
    ),
    "pamap2": CatalogEntry(
        "datasets.pamap2:Pamap2",
        "PAMAP2: three motion sensors and a heart rate monitor during 18 activities.",
        dict(root=Path("PAMAP2_Dataset")),
    ),
    "stage": CatalogEntry(
        "datasets.stage:Stage",
        "Stage: a world of people who never lived, for all that needs people and nobody's privacy.",
    ),
    "toyota_smarthome": CatalogEntry(
        "datasets.toyota_smarthome:ToyotaSmarthome",
        "Toyota Smarthome: 16,115 clips of 18 seniors who live in a flat with seven cameras.",
        dict(root=Path("toyota_smarthome")),
    ),
    "ucf101": CatalogEntry(
        "datasets.ucf101:UCF101",
        "UCF101: 13,320 web videos of 101 kinds of action.",
        dict(root=Path("ucf101")),
    ),
    "vispr": CatalogEntry(
        "datasets.vispr:Vispr",
        "VISPR: photographs with 68 labels of what they tell about people.",
        dict(root=Path("vispr")),
    ),
    "watch": CatalogEntry(
        "datasets.watch:Watch",
        "Shoulder exercises measured by a smartwatch, as the package seglearn carries them.",
    ),
    "wisdm": CatalogEntry(
        "datasets.wisdm:Wisdm",
        "WISDM: phones and watches worn during daily activities, of 2019 and of 2010.",
        dict(root=Path("wisdm-dataset")),
    ),
}
