//! Replacing text in files.

use serde_json::json;

use crate::api::Api;

/// Proves: DESIGN-4.5, DESIGN-10.7, DESIGN-10.21
#[tokio::test]
async fn a_text_is_replaced_where_it_is_meant() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace.post("/write", json!({"path": "a.txt", "content": "one\r\ntwo\r\ntwo\r\n"})).await;
    let edited = workspace
        .post("/edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "$(id)"}))
        .await;
    assert_eq!((edited.status, &edited.body["success"]), (200, &json!(true)), "{}", edited.body);
    assert_eq!((&edited.body["replacements"], &edited.body["lines_changed"]), (&json!(1), &json!(1)));
    assert!(edited.body["diff"].as_str().unwrap().contains("+$(id)"), "{}", edited.body);
    assert!(edited.body.get("rule").is_none() && edited.body.get("created").is_none());
    assert_eq!(workspace.sh("cat a.txt").await, "$(id)\r\ntwo\r\ntwo\r\n", "line ends stay");

    let two = json!({"filePath": "a.txt", "oldString": "two", "newString": "2"});
    let several = workspace.post("/edit", two.clone()).await;
    assert_eq!(several.failure(), (400, "multiple_matches"));
    assert!(
        several.body["error"]["message"].as_str().unwrap().contains("Found multiple matches for oldString"),
        "{}",
        several.body
    );
    assert_eq!(several.detail("lines"), &json!([2, 3]));
    let mut all = two.clone();
    all["replaceAll"] = json!(true);
    assert_eq!(workspace.post("/edit", all).await.body["replacements"], 2);
    let missing = workspace.post("/edit", two).await;
    assert_eq!(missing.failure(), (400, "no_match"));
    assert!(
        missing.body["error"]["message"].as_str().unwrap().contains("oldString not found in content"),
        "{}",
        missing.body
    );

    let created =
        workspace.post("/edit", json!({"path": "new/b.txt", "old_string": "", "new_string": "hi\n"})).await;
    assert_eq!((created.status, &created.body["created"]), (200, &json!(true)), "{}", created.body);
    let again =
        workspace.post("/edit", json!({"path": "new/b.txt", "old_string": "", "new_string": "ho\n"})).await;
    assert_eq!(again.failure(), (409, "already_exists"));
    assert_eq!(workspace.sh("cat new/b.txt").await, "hi\n");

    workspace.post("/write", json!({"path": "c.txt", "content": "\tif x {\n\t\ty\n\t}\n"})).await;
    let loose = json!({"path": "c.txt", "old_string": "if x {\n  y\n}", "new_string": "if z {\n\ty\n}"});
    assert_eq!(workspace.post("/edit", loose.clone()).await.failure(), (400, "no_match"));
    let mut fuzzy = loose;
    fuzzy["mode"] = json!("fuzzy");
    let fuzzy = workspace.post("/edit", fuzzy).await;
    assert_eq!((fuzzy.status, &fuzzy.body["rule"]), (200, &json!("indentation")), "{}", fuzzy.body);

    let gone = workspace.post("/edit", json!({"path": "nope", "old_string": "a", "new_string": "b"})).await;
    assert_eq!(gone.failure(), (404, "file_not_found"));
    let folder = workspace.post("/edit", json!({"path": "new", "old_string": "a", "new_string": "b"})).await;
    assert_eq!(folder.failure(), (400, "is_directory"));
    for (body, field) in [
        (json!({"path": "a.txt", "old_string": "x", "new_string": "x"}), "new_string"),
        (json!({"path": "a.txt", "old_string": "x", "new_string": "y", "mode": "loose"}), "mode"),
        (json!({"path": "a.txt", "old_string": "x", "new_string": "y", "regex": true}), "regex"),
        (json!({"path": "a.txt", "old_string": 5, "new_string": "y"}), "old_string"),
        (json!({"path": "a\u{0}", "old_string": "x", "new_string": "y"}), "file_path"),
    ] {
        let answer = workspace.post("/edit", body.clone()).await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "invalid_request"), &json!(field)),
            "{body}"
        );
    }
    api.finish().await;
}

/// Proves: DESIGN-4.5
#[tokio::test]
async fn a_byte_order_mark_stays_and_close_lines_are_offered() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace.sh(r"printf '\xef\xbb\xbffirst\nsecond line\nthird\n' > bom").await;
    let edit = json!({"path": "bom", "old_string": "first", "new_string": "1st"});
    assert_eq!(workspace.post("/edit", edit).await.status, 200);
    assert_eq!(workspace.sh("head -c 6 bom | od -An -tx1").await.trim(), "ef bb bf 31 73 74");

    let near = json!({"path": "bom", "old_string": "secnod line", "new_string": "x"});
    let missing = workspace.post("/edit", near).await;
    assert_eq!(missing.failure(), (400, "no_match"));
    assert!(missing.detail("suggestions").to_string().contains("second line"), "{}", missing.body);

    let both = json!({
        "path": "bom", "old_string": "third", "new_string": "3", "mode": "fuzzy", "replace_all": true
    });
    let refused = workspace.post("/edit", both).await;
    assert_eq!(
        (refused.failure(), refused.detail("field")),
        ((400, "invalid_request"), &json!("replace_all")),
        "{}",
        refused.body
    );
    assert_eq!(workspace.sh("tail -n 1 bom").await, "third\n");
    api.finish().await;
}

/// Proves: DESIGN-10.21
#[tokio::test]
async fn edits_of_one_file_at_once_all_land() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let numbers: Vec<u32> = (0..24).collect();
    let content: String = numbers.iter().map(|number| format!("<{number}>\n")).collect();
    workspace.post("/write", json!({"path": "shared", "content": content})).await;
    workspace.sh("ln -s shared other").await;
    let edits = numbers.iter().map(|number| {
        // By its own name and by a link's.
        let path = if number % 2 == 0 { "shared" } else { "other" };
        let (old, new) = (format!("<{number}>"), format!("[{number}]"));
        workspace.post("/edit", json!({"path": path, "old_string": old, "new_string": new}))
    });
    for answer in futures::future::join_all(edits).await {
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let expect: String = numbers.iter().map(|number| format!("[{number}]\n")).collect();
    assert_eq!(workspace.sh("cat shared").await, expect);
    api.finish().await;
}
